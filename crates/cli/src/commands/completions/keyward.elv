# elvish completion for keyward

use str

set edit:completion:arg-completer[keyward] = {|@words|
  keyward __complete -- (all $words[1..]) 2>/dev/null | each {|line|
    var value @help = (str:split "\t" $line)
    edit:complex-candidate $value &display=(str:join '  ' [$value $@help])
  }
}
