{{- define "keyward-node.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "keyward-node.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "keyward-node.labels" -}}
{{ include "keyward-node.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "keyward-node.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "keyward-node.counters" -}}
{{ .Values.dir }}/state/metrics.prom
{{- end }}

{{- /* The audiences for which nodes request tokens of service accounts. */}}
{{- define "keyward-node.audience" -}}
{{ get .Values.kubelet.tokenAttributes "serviceAccountTokenAudience" }}
{{- end }}

{{- define "keyward-node.config" -}}
kubelet.yaml: |
  apiVersion: kubelet.config.k8s.io/v1
  kind: CredentialProviderConfig
  providers:
  - name: keyward-provider-node
    apiVersion: credentialprovider.kubelet.k8s.io/v1
    matchImages: {{ toJson .Values.kubelet.matchImages }}
    defaultCacheDuration: 0s
    args:
    - --config={{ .Values.dir }}/current/providers.yaml
    - --bin-dir={{ .Values.dir }}/current/bin
    - --state={{ .Values.dir }}/state
    - --metrics={{ include "keyward-node.counters" . }}
    {{- with .Values.kubelet.tokenAttributes }}
    tokenAttributes: {{ toJson . }}
    {{- end }}
providers.yaml: |
  apiVersion: kubelet.config.k8s.io/v1
  kind: CredentialProviderConfig
  providers:
  {{- range .Values.providers }}
  - {{ toJson . }}
  {{- else }} []
  {{- end }}
{{- end }}

{{- define "keyward-node.container" -}}
image: {{ include "keyward-node.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  runAsUser: 0
  runAsGroup: 0
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
resources: {{ toJson .Values.resources }}
env:
# The home directory of the image belongs to another user.
- name: HOME
  value: /
{{- end }}

{{- define "keyward-node.mounts" -}}
- name: config
  mountPath: /etc/keyward/node
  readOnly: true
{{- range $i, $path := concat .Values.programs .Values.hostPaths }}
- name: host-{{ $i }}
  mountPath: {{ $path }}
  readOnly: true
{{- end }}
{{- end }}

{{- /* The DaemonSet's spec; `installed` says whether it installs or removes. */}}
{{- define "keyward-node.spec" -}}
{{- $values := .root.Values }}
{{- $name := include "keyward-node.name" .root -}}
selector:
  matchLabels:
    {{- include "keyward-node.selector" .root | nindent 4 }}
updateStrategy:
  {{- if .installed }}
  {{- toYaml $values.updateStrategy | nindent 2 }}
  {{- else }}
  # No node loses anything that it still needs, so all of them may go at once.
  type: RollingUpdate
  rollingUpdate:
    maxUnavailable: 100%
  {{- end }}
template:
  metadata:
    labels:
      {{- include "keyward-node.labels" .root | nindent 6 }}
      {{- with $values.podLabels }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
    annotations:
      # New pods for a new configuration.
      keyward/config: {{ include "keyward-node.config" .root | sha256sum }}
      {{- with $values.podAnnotations }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
  spec:
    serviceAccountName: {{ $name }}
    automountServiceAccountToken: false
    # Providers see what they see when the kubelet runs them: the metadata service of a cloud may not answer pods.
    hostNetwork: true
    # To see whether a kubelet uses the directory.
    hostPID: true
    terminationGracePeriodSeconds: 5
    priorityClassName: {{ $values.priorityClassName }}
    securityContext:
      seccompProfile: {{ toJson $values.seccompProfile }}
    {{- with $values.imagePullSecrets }}
    imagePullSecrets: {{ toJson . }}
    {{- end }}
    {{- with $values.nodeSelector }}
    nodeSelector: {{ toJson . }}
    {{- end }}
    {{- with $values.affinity }}
    affinity: {{ toJson . }}
    {{- end }}
    tolerations: {{ toJson $values.tolerations }}
    initContainers:
    {{- if .installed }}
    - name: install
      {{- include "keyward-node.container" .root | nindent 6 }}
      args:
      - node
      - install
      - --dir={{ $values.dir }}
      - --kubelet-config=/etc/keyward/node/kubelet.yaml
      - --providers=/etc/keyward/node/providers.yaml
      {{- range $values.programs }}
      - --programs={{ . }}
      {{- end }}
      {{- range $values.test.images }}
      - --test={{ . }}
      {{- end }}
      {{- if $values.kubelet.requestRestart }}
      - --request-restart
      {{- end }}
      volumeMounts:
      - name: dir
        mountPath: {{ $values.dir }}
      {{- include "keyward-node.mounts" .root | nindent 6 }}
    {{- with $values.test.pull }}
    - name: pull
      {{- include "keyward-node.container" $.root | nindent 6 | replace (printf "image: %s" (include "keyward-node.image" $.root)) (printf "image: %s" .) | replace (printf "imagePullPolicy: %s" $values.image.pullPolicy) "imagePullPolicy: Always" }}
      args: [version]
    {{- end }}
    {{- else }}
    - name: remove
      {{- include "keyward-node.container" .root | nindent 6 }}
      args:
      - node
      - remove
      - --dir={{ $values.dir }}
      {{- if $values.removal.force }}
      - --force
      {{- end }}
      volumeMounts:
      - name: dir
        mountPath: {{ $values.dir }}
    {{- end }}
    containers:
    - name: node
      {{- include "keyward-node.container" .root | nindent 6 }}
      - name: POD_IP
        valueFrom:
          fieldRef:
            fieldPath: status.podIP
      args:
      - node
      - serve
      - --dir={{ $values.dir }}
      {{- if and .installed $values.metrics.enabled }}
      - --metrics={{ include "keyward-node.counters" .root }}
      - --listen=$(POD_IP):{{ $values.metrics.port }}
      - --danger-listen-remote
      {{- end }}
      {{- if and .installed $values.metrics.enabled }}
      ports:
      - name: metrics
        containerPort: {{ $values.metrics.port }}
        hostPort: {{ $values.metrics.port }}
      {{- end }}
      {{- if and .installed $values.test.images }}
      # The providers log in as they would for the kubelet.
      readinessProbe:
        exec:
          command:
          - keyward
          - image
          - explain
          - --config={{ $values.dir }}/current/kubelet.yaml
          - --bin-dir={{ $values.dir }}/current/bin
          {{- range $values.test.images }}
          - {{ . | quote }}
          {{- end }}
        periodSeconds: {{ $values.test.periodSeconds }}
        timeoutSeconds: 60
      {{- end }}
      volumeMounts:
      # It listens on the network, and the kubelet runs the programs in there as root.
      - name: dir
        mountPath: {{ $values.dir }}
        readOnly: true
      {{- if .installed }}
      {{- include "keyward-node.mounts" .root | nindent 6 }}
      {{- end }}
    volumes:
    - name: dir
      hostPath:
        path: {{ $values.dir }}
        type: DirectoryOrCreate
    {{- if .installed }}
    - name: config
      configMap:
        name: {{ $name }}
    {{- range $i, $path := concat $values.programs $values.hostPaths }}
    - name: host-{{ $i }}
      hostPath:
        path: {{ $path }}
        type: Directory
    {{- end }}
    {{- end }}
{{- end }}
