#!/bin/bash
# {{ name }}: every host of the slice runs this at every boot.
set -uo pipefail
export HOME=/root

metadata() {
  curl -sf -H 'Metadata-Flavor: Google' \
    "http://metadata.google.internal/computeMetadata/v1/instance/attributes/$1"
}

command=(
{% for word in command %}
  {{ word | quote }}
{% endfor %}
)
gcloud auth configure-docker {{ registry | quote }} --quiet

# 0: finished. {{ usage_error }}: impossible settings. After any other code, also that of a host that lost
# another one, all hosts start again and resume from the newest checkpoint.
for (( left = {{ failures }}; ; left-- )); do
  docker rm --force spade 2> /dev/null
  docker run --name=spade --init --privileged --net=host --stop-timeout=60 \
    --log-opt=max-size=100m --log-opt=max-file=3 {{ image | quote }} "${command[@]}"
  code=$?
  echo "exit code $code, $left restarts left"
  if (( code == 0 || code == {{ usage_error }} || left == 0 )); then break; fi
  sleep {{ pause }}
done

if [[ "$(metadata agent-worker-number)" == 0 ]]; then
  echo "$code" | gcloud storage cp - {{ exit_file | quote }}
fi
