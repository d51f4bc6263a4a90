# fish completion for keyward

function __keyward_complete
    set --local words (commandline --current-process --tokenize --cut-at-cursor)
    set --erase words[1]
    set --local current (commandline --current-token --cut-at-cursor)
    # Behind `--` is a command of its own.
    if set --local at (contains --index -- -- $words)
        set --erase words[1..$at]
        complete --do-complete (string join -- ' ' $words "$current")
        return
    end
    keyward __complete -- $words "$current" 2>/dev/null
end

complete --command keyward --keep-order --no-files --arguments '(__keyward_complete)'
