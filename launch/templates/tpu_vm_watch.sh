#!/bin/bash
# Keeps the queued resource of one run until the run has ended, then deletes it. Exit code: the
# run's, or {{ preempted }} when the slice was taken away; the launcher then starts this again.
set -uo pipefail
cd "$(dirname "$0")"
name={{ name }}
where=(--project={{ project | quote }} --zone={{ zone | quote }})
exit_file={{ exit_file | quote }}

queued() { gcloud compute tpus queued-resources "$1" "$name" "${where[@]}" "${@:2}"; }
state() { queued describe --format='value(state.state)'; }
absent() { [[ "$(queued describe 2>&1 > /dev/null)" == *NOT_FOUND* ]]; }
exit_code() { gcloud storage cat "$exit_file" 2> /dev/null; }
delete() { queued delete --force --quiet || absent; }

{% include "again.sh" %}

end() {  # CODE: deletes the slice and exits
  if again 10 {{ poll }} delete; then exit "$1"; fi
  echo "$name could not be deleted and is still paid for: launch again, or delete it by hand"
  exit 1
}

if absent; then  # and not merely unseen
  if code="$(exit_code)"; then
    if [[ "$code" == 0 ]]; then echo "finished before"; exit 0; fi
    gcloud storage rm "$exit_file" || exit 1  # of an earlier try
  fi
  queued create --node-id="$name" --async \
    --accelerator-type={{ accelerator_type }} --runtime-version={{ runtime | quote }} \
    --network={{ network | quote }} --labels=sweep={{ label }} \
{% if spot %}
    --spot \
{% endif %}
{% if service_account %}
    --service-account={{ service_account | quote }} --scopes=cloud-platform \
{% endif %}
    --metadata-from-file=startup-script={{ startup | quote }} || exit 1
fi

unknown=0  # looks in a row that gave no answer
while (( unknown < 10 )); do
  if code="$(exit_code)"; then
    echo "the run ended with exit code $code"
    end "$code"
  fi
  now="$(state)"
  echo "$(date -u +%FT%TZ) ${now:-no answer}"
  case "$now" in
    SUSPENDED) end {{ preempted }} ;;
    FAILED) queued describe; end 1 ;;
    "") unknown=$(( unknown + 1 )) ;;
    *) unknown=0 ;;
  esac
  sleep {{ poll }}
done
echo "$name can not be seen any more: deleted by hand, or no connection; it is left as it is"
exit 1
