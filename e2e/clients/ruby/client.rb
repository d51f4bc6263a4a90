# Ruby's kubeclient at work: reads and watches until its stdin ends. See ../README.md for what it prints.

require "kubeclient"

_mode, kubeconfig, context, namespace, word = ARGV
chosen = Kubeclient::Config.read(kubeconfig).context(context)
make = lambda do
  Kubeclient::Client.new(
    chosen.api_endpoint, "v1", ssl_options: chosen.ssl_options, auth_options: chosen.auth_options
  )
end
$stdout.sync = true
said = Mutex.new
say = ->(line) { said.synchronize { puts line } }
ended = false

api = make.call
list = api.get_config_maps(namespace: namespace, label_selector: word)
watcher = make.call.watch_config_maps(
  namespace: namespace, label_selector: word, resource_version: list.resourceVersion
)
Thread.new do
  watcher.each { |event| say.call("event #{event.type} #{event.object.metadata.name}") }
  say.call("error watch: it ended") unless ended
rescue StandardError => e
  say.call("error watch: #{e.inspect}") unless ended
end
say.call("ready")
input = Thread.new { $stdin.read }
reads = 0
until input.join(0.2)
  begin
    api.get_config_map("steady", namespace)
    reads += 1
  rescue StandardError => e
    say.call("error read: #{e.inspect}")
  end
end
ended = true
say.call("reads #{reads}")
exit!(0)
