class Keyward < Formula
  desc "Runs Kubernetes credential plugins once and shares the result"
  homepage "{{repository}}"
  url "{{url}}"
  sha256 "{{sha256}}"
  license any_of: ["MIT", "Apache-2.0"]

  depends_on :linux

  def install
    bin.install Dir["bin/*"]
    man1.install Dir["share/man/man1/*"]
    bash_completion.install "share/bash-completion/completions/keyward"
    zsh_completion.install "share/zsh/site-functions/_keyward"
    fish_completion.install "share/fish/vendor_completions.d/keyward.fish"
    pwsh_completion.install "share/keyward/keyward.ps1" => "_keyward.ps1"
    doc.install Dir["share/doc/keyward/*"]
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/keyward --version")
    system bin/"keyward", "demo"
  end
end
