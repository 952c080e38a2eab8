{{/* The pod of `helm test`. `part` has the image and where pods may run; with `account` it acts as that account, which is an agent's,
else it has no token. */}}
{{- define "library.verify" -}}
{{- $over := empty .account | ternary .part dict }}
apiVersion: v1
kind: Pod
metadata:
  name: {{ include "library.fullname" .root }}-verify
  namespace: {{ include "library.namespace" .root | quote }}
  {{- include "library.described" (dict "root" .root "component" "test" "annotations" (dict "helm.sh/hook" "test" "helm.sh/hook-delete-policy" "before-hook-creation,hook-succeeded")) | nindent 2 }}
spec:
  {{- if not .account }}
  automountServiceAccountToken: false
  {{- end }}
  {{- include "library.jobPod" . | nindent 2 }}
  containers:
  - name: verify
    image: {{ include "library.image" (dict "root" .root "image" .part.image) | quote }}
    imagePullPolicy: {{ .part.image.pullPolicy }}
    args: {{ .arguments | toJson }}
    {{- with include "library.env" (dict "part" (dict "extraEnv" .env) "path" "") }}{{ . | nindent 4 }}{{ end }}
    securityContext: {{- include "library.securityContext" (dict "part" $over) | nindent 6 }}
    resources: {{- toYaml .part.resources | nindent 6 }}
    {{- if .settings }}
    volumeMounts:
    - {name: settings, mountPath: /etc/hami-plugins, readOnly: true}
  volumes:
  - {name: settings, configMap: {name: {{ .settings }}}}
    {{- end }}
{{- end -}}
