{{- define "bridge.name" -}}
{{ .Release.Name | trunc 40 | trimSuffix "-" }}
{{- end }}

{{- define "bridge.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "bridge.image" -}}
{{ .Values.image.repository }}
{{- if .Values.image.digest }}@{{ .Values.image.digest }}
{{- else }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}
{{- end }}

{{- define "bridge.redis" -}}
{{ if .Values.redis.enabled }}redis://{{ include "bridge.name" . }}-redis{{ else }}{{ .Values.redis.url }}{{ end }}
{{- end }}

{{- /* A deployment of servers or workers: root, component, args, pods. */ -}}
{{- define "bridge.deployment" -}}
{{- $name := printf "%s-%s" (include "bridge.name" .root) .component -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ $name }}
  labels:
    {{- include "bridge.labels" .root | nindent 4 }}
    app.kubernetes.io/component: {{ .component }}
    app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
    helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
spec:
  replicas: {{ .pods.replicas }}
  selector:
    matchLabels:
      {{- include "bridge.labels" .root | nindent 6 }}
      app.kubernetes.io/component: {{ .component }}
  strategy:
    rollingUpdate: {maxUnavailable: 0, maxSurge: 1}
  template:
    metadata:
      labels:
        {{- include "bridge.labels" .root | nindent 8 }}
        app.kubernetes.io/component: {{ .component }}
        mcp-bridge/redis: {{ include "bridge.name" .root }}
      annotations:
        # When the files change, Kubernetes replaces the pods.
        mcp-bridge/files: {{ toJson .root.Values.files | sha256sum }}
    spec:
      terminationGracePeriodSeconds: {{ .pods.terminationGracePeriodSeconds }}
      automountServiceAccountToken: false
      securityContext: {runAsNonRoot: true, runAsUser: 10001, seccompProfile: {type: RuntimeDefault}}
      {{- with .root.Values.imagePullSecrets }}
      imagePullSecrets: {{ toJson . }}
      {{- end }}
      containers:
        - name: {{ .component }}
          image: {{ include "bridge.image" .root | quote }}
          imagePullPolicy: {{ .root.Values.image.pullPolicy }}
          args: {{ toJson .args }}
          env:
            - {name: REDIS_URL, value: {{ include "bridge.redis" .root | quote }}}
            - {name: MCP_BRIDGE_HOST, value: {{ .root.Values.ingress.host | default (printf "%s-server" (include "bridge.name" .root)) | quote }}}
            - name: MCP_BRIDGE_TOKEN
              valueFrom: {secretKeyRef: {name: {{ .root.Values.secretName }}, key: token}}
            - name: MCP_BRIDGE_KEY
              valueFrom: {secretKeyRef: {name: {{ .root.Values.secretName }}, key: key}}
            {{- range .root.Values.env }}
            - {{ toJson . }}
            {{- end }}
          {{- if eq .component "server" }}
          ports: [{name: mcp, containerPort: 8808}]
          readinessProbe: # from SIGTERM on, /health returns 503, while running calls finish
            httpGet: {path: /health, port: mcp, httpHeaders: [{name: Host, value: localhost}]}
            periodSeconds: 2
          livenessProbe:
            tcpSocket: {port: mcp}
            periodSeconds: 20
          {{- end }}
          resources: {{ toJson .pods.resources }}
          securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
          {{- if .root.Values.files }}
          volumeMounts: [{name: files, mountPath: /app, readOnly: true}]
          {{- end }}
      {{- if .root.Values.files }}
      volumes: [{name: files, configMap: {name: {{ include "bridge.name" .root }}-files}}]
      {{- end }}
      {{- range $key, $value := pick .root.Values "nodeSelector" "tolerations" "affinity" }}
      {{- with $value }}
      {{ $key }}: {{ toJson . }}
      {{- end }}
      {{- end }}
{{- end }}
