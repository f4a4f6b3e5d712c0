again() {  # TRIES PAUSE COMMAND...: runs the command until it works
  local tries="$1"
  until "${@:3}"; do
    (( --tries > 0 )) || return 1
    sleep "$2"
  done
}
