"""Asks the server of one context who the client is."""

import sys

from kubernetes import client, config

kubeconfig, context = sys.argv[1:3]
api = client.AuthenticationV1Api(config.new_client_from_config(config_file=kubeconfig, context=context))
review = api.create_self_subject_review({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"})
print(review.status.user_info.username)
