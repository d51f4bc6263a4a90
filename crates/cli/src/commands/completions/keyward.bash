# bash completion for keyward

_keyward() {
    # Bash splits words at colons and the like, which names of contexts contain: join them again.
    local line=${COMP_LINE:0:COMP_POINT} words=() word i
    for ((i = 0; i <= COMP_CWORD; i++)); do
        word=${line%%[![:space:]]*}
        line=${line#"$word"}
        if [[ -n $word || $i -eq 0 ]]; then
            words+=('')
        fi
        word=${COMP_WORDS[i]}
        if ((i == COMP_CWORD)); then
            word=$line
        elif [[ $word == -- ]]; then
            # A command of its own follows.
            if ((i > 1)) && declare -F _command_offset >/dev/null; then
                _command_offset $((i + 1))
                return
            fi
        fi
        line=${line#"$word"}
        words[${#words[@]} - 1]+=${word//[\"\'\\]/}
    done
    local current=${words[${#words[@]} - 1]}
    # What bash leaves as it is: everything up to the last character that splits words, which itself is
    # replaced if it is an `@`.
    local kept=${current%"${current##*["$COMP_WORDBREAKS"]}"} value
    kept=${kept%@}
    COMPREPLY=()
    while IFS=$'\t' read -r value _; do
        if [[ $value == */ || $value == *= ]]; then
            compopt -o nospace 2>/dev/null
        fi
        printf -v value %q "${value#"$kept"}"
        COMPREPLY+=("${value/#\\~/\~}")
    done < <(keyward __complete -- "${words[@]:1}" 2>/dev/null)
}

complete -o bashdefault -F _keyward keyward
