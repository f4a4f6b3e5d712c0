#!/bin/bash
# {{ name }}: every host of the slice runs this at every boot.
set -uo pipefail
export HOME=/root

exit_file={{ exit_file | quote }}
if gcloud storage cat "$exit_file" 2> /dev/null; then echo "ended before"; exit 0; fi

metadata() {
  curl -sf -H 'Metadata-Flavor: Google' \
    "http://metadata.google.internal/computeMetadata/v1/instance/attributes/$1"
}

command=(
{% for word in command %}
  {{ word | quote }}
{% endfor %}
)
bucket={{ mount | quote }}
image={{ image | quote }}
gcloud auth configure-docker {{ registry | quote }} --quiet

{% include "again.sh" %}

install_gcsfuse() {
  local packages=https://packages.cloud.google.com/apt key=/usr/share/keyrings/cloud.google.asc
  curl -sf "$packages/doc/apt-key.gpg" | tee "$key" > /dev/null
  echo "deb [signed-by=$key] $packages gcsfuse-$(lsb_release --codename --short) main" |
    tee /etc/apt/sources.list.d/gcsfuse.list
  apt-get update
  apt-get install --yes --option=DPkg::Lock::Timeout=300 gcsfuse
}

unmount() { umount --lazy "$bucket" 2> /dev/null; }

prepare() {  # the bucket and the image
  docker rm --force spade 2> /dev/null
  unmount  # of an earlier try, perhaps broken
  command -v gcsfuse > /dev/null || install_gcsfuse || return 1
  mkdir -p "$bucket"
  gcsfuse \
{% for option in mount_options %}
    --{{ option }} \
{% endfor %}
    {{ bucket | quote }} "$bucket" || return 1
  docker image inspect "$image" > /dev/null 2>&1 || docker pull --quiet "$image"
}

run() {
  docker run --name=spade --init --privileged --net=host --stop-timeout=60 \
    --volume="$bucket:$bucket" --log-opt=max-size=100m --log-opt=max-file=3 \
    "$image" "${command[@]}"
}

tell() { echo "$code" | gcloud storage cp - "$exit_file"; }

# 0: finished. {{ usage_error }}: impossible settings. After any other code, also that of a host that
# lost another one, all hosts start again and resume from the newest checkpoint.
# Waiting for the bucket and the image uses up no restart.
for (( left = {{ failures }}; ; left-- )); do
  again {{ tries }} {{ pause }} prepare || { echo "no bucket or image"; code=1; break; }
  run
  code=$?
  echo "exit code $code, $left restarts left"
  if (( code == 0 || code == {{ usage_error }} || left == 0 )); then break; fi
  sleep {{ pause }}
done
unmount

if [[ "$(metadata agent-worker-number)" == 0 ]]; then
  again {{ tries }} {{ pause }} tell
fi
