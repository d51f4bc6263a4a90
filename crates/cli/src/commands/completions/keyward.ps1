# PowerShell completion for keyward

Register-ArgumentCompleter -Native -CommandName keyward -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)
    $words = @($commandAst.CommandElements |
        Select-Object -Skip 1 |
        Where-Object { $_.Extent.EndOffset -lt $cursorPosition } |
        ForEach-Object { "$_".Trim("'", '"') })
    # An empty word cannot be passed to a program by every PowerShell.
    $index = $words.Count
    if ($wordToComplete) { $words += $wordToComplete }
    keyward __complete --index $index '--' @words 2>$null | ForEach-Object {
        $value, $help = $_ -split "`t", 2
        if (-not $help) { $help = $value }
        $text = if ($value -match '[\s''"`$(){};,|&<>@#]') { "'" + $value.Replace("'", "''") + "'" } else { $value }
        [System.Management.Automation.CompletionResult]::new($text, $value, 'ParameterValue', $help)
    }
}
