#compdef keyward

_keyward() {
    # Behind `--` is a command of its own.
    local at=${words[(i)--]}
    if (( at < CURRENT )); then
        shift $at words
        (( CURRENT -= at ))
        _normal
        return
    fi
    local line value
    local -a whole open
    for line in ${(f)"$(keyward __complete -- "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)"}; do
        value=${line%%$'\t'*}
        line=${line#$value}
        value=${value//:/\\:}${line:+:${line#$'\t'}}
        if [[ ${value%%:*} == */ || ${value%%:*} == *= ]]; then
            open+=("$value")
        else
            whole+=("$value")
        fi
    done
    local found=1
    (( ${#whole} )) && _describe -V keyward whole && found=0
    (( ${#open} )) && _describe -V keyward open -S '' && found=0
    return found
}

if [[ ${funcstack[1]} == _keyward ]]; then
    _keyward "$@"
else
    compdef _keyward keyward
fi
