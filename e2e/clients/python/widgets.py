"""Lists the widgets of one context with the dynamic client, which keeps a discovery cache on disk."""

import sys

from kubernetes import config
from kubernetes.dynamic import DynamicClient

kubeconfig, context, version = sys.argv[1:4]
api = DynamicClient(config.new_client_from_config(config_file=kubeconfig, context=context))
widgets = api.resources.get(api_version=f"example.org/{version}", kind="Widget")
print(" ".join(item.metadata.name for item in widgets.get(namespace="default").items))
