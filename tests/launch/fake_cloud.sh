#!/bin/bash
# Stands in for the programs of a cloud and of its machines: fake_cloud.sh PROGRAM ARGUMENTS...
#
# Under FAKE_CLOUD, a folder: `calls` gets a line per call. `life_1`, `life_2`, ... hold the states
# of the first, second, ... resource that is created, a line each: every look takes the next one, and
# the last one stays. The state "exit N" is a run that has just ended with that code, "gone" a
# resource that somebody deleted, "gone N" one whose run had ended, "down" no connection. Exit codes
# that are not all 0 are in `codes` (docker run), `pulls` (docker pull), `mounts` (gcsfuse, which
# `apt-get install` makes where it is missing), `uploads` and `deletes`; `worker` holds the number
# of this host.
cd "$FAKE_CLOUD" || exit 9
echo "$*" >> calls
program="$1"
shift

take() {  # the first line of a file into `taken`; the last one stays there
  mapfile -t lines < "$1"
  taken="${lines[0]}"
  if (( ${#lines[@]} > 1 )); then printf '%s\n' "${lines[@]:1}" > "$1"; fi
}

end() {  # with the next exit code of a file
  taken=0
  if [[ -e "$1" ]]; then take "$1"; fi
  return "$taken"
}

create() {
  if [[ -e resource ]]; then return 1; fi
  created=$(( $(cat created 2> /dev/null || echo 0) + 1 ))
  echo "$created" > created
  cp "life_$created" resource
}

look() {  # its state into `taken`; fails where it does not exist or there is no connection
  if [[ ! -e resource ]]; then return 1; fi
  take resource
  case "$taken" in
    exit*) echo "${taken#exit }" > exit_code; taken=ACTIVE ;;
    gone*)
      rm resource
      if [[ "$taken" != gone ]]; then echo "${taken#gone }" > exit_code; fi
      return 1 ;;
    down) return 2 ;;
  esac
}

case "$program $1 $2 $3 $4" in
  "gcloud storage cp "*) end uploads && cat > exit_code ;;
  "gcloud storage rm "*) rm exit_code ;;
  "gcloud storage cat "*) cat exit_code ;;
  *" queued-resources create") create ;;
  *" queued-resources delete") end deletes && rm resource ;;
  *" queued-resources describe")
    look
    case $? in
      0) echo "$taken" ;;
      1) echo "ERROR: NOT_FOUND: Resource '$4' was not found" >&2; exit 1 ;;
      2) echo "ERROR: UNAVAILABLE: no connection" >&2; exit 1 ;;
    esac ;;
  kubectl*" apply "*) [[ -e resource ]] || create ;;
  kubectl*" delete "*) rm resource ;;
  kubectl*" describe "*) echo "why it failed" ;;
  kubectl*" get "*)
    look
    case $? in
      0) echo "$5/$taken" ;;
      2) exit 1 ;;
    esac ;;
  "docker image inspect "*) [[ -e image ]] ;;
  "docker pull "*) end pulls && touch image ;;
  "docker run "*) end codes ;;
  gcsfuse*) end mounts ;;
  "apt-get install "*) cp bin/docker bin/gcsfuse ;;
  tee*) cat > /dev/null ;;
  curl*) cat worker ;;
esac
