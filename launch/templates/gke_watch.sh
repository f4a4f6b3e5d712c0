#!/bin/bash
# Applies the JobSet of one run and waits until it has ended. Exit code: 0 or 1.
set -uo pipefail
cd "$(dirname "$0")"
name={{ name }}
kubectl=(kubectl --context={{ context | quote }} --namespace={{ namespace | quote }})

state() {  # "NAME/" while it runs; nothing where it does not exist
  "${kubectl[@]}" get jobset "$name" --ignore-not-found \
    --output='jsonpath={.metadata.name}/{.status.terminalState}'
}

now="$(state)" || exit 1
if [[ "$now" == "$name/Failed" ]]; then
  "${kubectl[@]}" delete jobset "$name" || exit 1  # of an earlier try
fi
"${kubectl[@]}" apply --filename={{ manifest | quote }} || exit 1

unknown=0  # looks in a row that gave no answer
while (( unknown < 10 )); do
  if now="$(state)"; then unknown=0; else now=unknown; unknown=$(( unknown + 1 )); fi
  echo "$(date -u +%FT%TZ) ${now:-gone}"
  case "$now" in
    "$name/Completed") exit 0 ;;
    "$name/Failed") "${kubectl[@]}" describe jobset "$name"; exit 1 ;;
    "") echo "$name was deleted"; exit 1 ;;
  esac
  sleep {{ poll }}
done
echo "$name can not be seen any more: no connection; it is left as it is"
exit 1
