{{/* A server's certificate: its Secret, cert-manager's objects, what webhook configurations say of it, and the Job that has them
trust it. `server` is the name of the Service. */}}
{{- define "library.certificateSecret" -}}
{{- /* cert-manager's stays when its Certificate goes, and must not be in the way of the one that Helm makes. */ -}}
{{- $certificate := .root.Values.certificate -}}
{{- $usual := printf "%s-%s" .server (eq $certificate.source "bootstrap" | ternary "tls" "certificate") -}}
{{- $certificate.secretName | default $usual -}}
{{- end -}}

{{- define "library.webhookConfiguration" -}}
{{- include "library.clusterName" (dict "root" .root "name" .server) -}}
{{- end -}}

{{- define "library.webhookClient" -}}
{{- $values := .root.Values -}}
{{- if $values.webhooks.url -}}
url: {{ printf "%s%s" (trimSuffix "/" $values.webhooks.url) .path | quote }}
{{- else -}}
service: {name: {{ .server }}, namespace: {{ include "library.namespace" .root | quote }}, port: 443, path: {{ .path }}}
{{- end }}
{{- if eq $values.certificate.source "secret" }}
caBundle: {{ $values.certificate.caBundle | quote }}
{{- end }}
{{- end -}}

{{- define "library.certificate" -}}
{{- $certificate := .root.Values.certificate }}
apiVersion: cert-manager.io/v1
kind: Certificate
metadata:
  name: {{ .server }}
  namespace: {{ include "library.namespace" .root | quote }}
  {{- include "library.described" . | nindent 2 }}
spec:
  secretName: {{ include "library.certificateSecret" . }}
  {{- $host := printf "%s.%s.svc" .server (include "library.namespace" .root) }}
  {{- $names := list $host (printf "%s.cluster.local" $host) }}
  {{- $addresses := list }}
  {{- range $certificate.names | default list }}
  {{- if regexMatch "^[0-9.]+$|:" . }}{{ $addresses = append $addresses . }}{{ else }}{{ $names = append $names . }}{{ end }}
  {{- end }}
  dnsNames: {{ toJson $names }}
  {{- with $addresses }}
  ipAddresses: {{ toJson . }}
  {{- end }}
  usages: [server auth]
  issuerRef:
    name: {{ $certificate.issuer.name | default .server }}
    kind: {{ $certificate.issuer.kind }}
    group: {{ $certificate.issuer.group }}
{{- if not $certificate.issuer.name }}
{{- $selfSigned := printf "%s-self-signed" .server }}
{{- $authority := printf "%s-authority" .server }}
---
# The authority outlives the server's certificates. Without one, webhooks would trust a renewed certificate before the kubelets
# have handed it to the servers. It keeps its key, so that certificates that it has signed stay good when it is renewed itself.
apiVersion: cert-manager.io/v1
kind: Issuer
metadata:
  name: {{ .server }}
  namespace: {{ include "library.namespace" .root | quote }}
  {{- include "library.described" . | nindent 2 }}
spec:
  ca: {secretName: {{ $authority }}}
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata:
  name: {{ $authority }}
  namespace: {{ include "library.namespace" .root | quote }}
  {{- include "library.described" . | nindent 2 }}
spec:
  secretName: {{ $authority }}
  isCA: true
  commonName: {{ .server }}
  duration: 87600h0m0s
  privateKey: {algorithm: ECDSA, size: 256, rotationPolicy: Never}
  issuerRef: {name: {{ $selfSigned }}, kind: Issuer, group: cert-manager.io}
---
apiVersion: cert-manager.io/v1
kind: Issuer
metadata:
  name: {{ $selfSigned }}
  namespace: {{ include "library.namespace" .root | quote }}
  {{- include "library.described" . | nindent 2 }}
spec:
  selfSigned: {}
{{- end }}
{{- end -}}

{{/* `kinds` are the webhook configurations, `arguments` the command's. */}}
{{- define "library.trust" -}}
{{- $values := .root.Values }}
{{- $context := dict "root" .root "server" .server "component" "trust" }}
{{- $name := printf "%s-trust" (include "library.fullname" .root) }}
{{- $account := $values.certificate.serviceAccount.name | default $name }}
{{- $clusterName := include "library.clusterName" (dict "root" .root "name" $name) }}
# A Job at the end of each install and upgrade has the webhooks trust the server's certificates. Its account is the only one
# that may write webhook configurations, and it is deleted once the Job has succeeded.
{{- if $values.certificate.serviceAccount.create }}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ $account }}
  namespace: {{ include "library.namespace" .root | quote }}
  {{- include "library.described" (merge (dict "annotations" (merge (include "library.trusting" "-2" | fromYaml) ($values.certificate.serviceAccount.annotations | default dict))) $context) | nindent 2 }}
---
{{- end }}
{{- if $values.rbac.create }}
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ $clusterName }}
  {{- include "library.described" (merge (dict "annotations" (include "library.trusting" "-2" | fromYaml)) $context) | nindent 2 }}
rules:
- {apiGroups: [admissionregistration.k8s.io], resources: [{{ join ", " .kinds }}], resourceNames: [{{ include "library.webhookConfiguration" $context }}], verbs: [get, patch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ $clusterName }}
  {{- include "library.described" (merge (dict "annotations" (include "library.trusting" "-1" | fromYaml)) $context) | nindent 2 }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: {{ $clusterName }}}
subjects:
- {kind: ServiceAccount, name: {{ $account }}, namespace: {{ include "library.namespace" .root | quote }}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ $name }}
  namespace: {{ include "library.namespace" .root | quote }}
  {{- include "library.described" (merge (dict "annotations" (include "library.trusting" "-2" | fromYaml)) $context) | nindent 2 }}
rules:
- {apiGroups: [""], resources: [secrets], resourceNames: [{{ include "library.certificateSecret" $context }}], verbs: [get, patch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ $name }}
  namespace: {{ include "library.namespace" .root | quote }}
  {{- include "library.described" (merge (dict "annotations" (include "library.trusting" "-1" | fromYaml)) $context) | nindent 2 }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: {{ $name }}}
subjects:
- {kind: ServiceAccount, name: {{ $account }}, namespace: {{ include "library.namespace" .root | quote }}}
---
{{- end }}
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ $name }}
  namespace: {{ include "library.namespace" .root | quote }}
  {{- include "library.described" (merge (dict "annotations" (include "library.trusting" "0" | fromYaml)) $context) | nindent 2 }}
spec:
  backoffLimit: 3
  activeDeadlineSeconds: 300
  template:
    metadata:
      labels: {{- include "library.selector" $context | nindent 8 }}
    spec:
      {{- include "library.jobPod" (dict "root" .root "part" $values "account" $account) | nindent 6 }}
      {{- with $values.nodeSelector }}
      nodeSelector: {{- toYaml . | nindent 8 }}
      {{- end }}
      containers:
      - name: trust
        image: {{ include "library.image" (dict "root" .root "image" $values.image) | quote }}
        imagePullPolicy: {{ $values.image.pullPolicy }}
        args: {{ .arguments | toJson }}
        {{- with include "library.env" (dict "part" $values "path" "") }}{{ . | nindent 8 }}{{ end }}
        securityContext: {{- include "library.securityContext" (dict "part" $values) | nindent 10 }}
        resources: {{- toYaml $values.resources | nindent 10 }}
        volumeMounts:
        - {name: settings, mountPath: /etc/hami-plugins, readOnly: true}
      volumes:
      - {name: settings, configMap: {name: {{ .server }}}}
{{- end -}}

{{- define "library.trusting" -}}
helm.sh/hook: post-install,post-upgrade,post-rollback
helm.sh/hook-weight: {{ . | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end -}}
