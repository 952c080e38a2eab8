{{/* Objects that charts make in the same way; each begins without `---`. */}}

{{- define "library.serviceAccount" -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ .name }}
  namespace: {{ include "library.namespace" .root | quote }}
  {{- include "library.described" (merge (dict "annotations" .account.annotations) .) | nindent 2 }}
{{- end -}}

{{/* `service` has what values say of it. */}}
{{- define "library.service" -}}
{{- $service := .service }}
apiVersion: v1
kind: Service
metadata:
  name: {{ .name }}
  namespace: {{ include "library.namespace" .root | quote }}
  {{- include "library.described" (merge (dict "labels" $service.labels "annotations" $service.annotations) .) | nindent 2 }}
spec:
  {{- if ne $service.type "ClusterIP" }}
  type: {{ $service.type }}
  {{- end }}
  {{- with $service.ipFamilyPolicy }}
  ipFamilyPolicy: {{ . }}
  {{- end }}
  {{- with $service.ipFamilies }}
  ipFamilies: {{ toJson . }}
  {{- end }}
  selector: {{- include "library.selector" . | nindent 4 }}
  ports:
  - {name: webhooks, port: 443, targetPort: webhooks}
  - {name: plain, port: {{ .root.Values.ports.plain }}, targetPort: plain}
{{- end -}}

{{/* `budget` has what values say of it; by default one pod at a time may be moved. */}}
{{- define "library.podDisruptionBudget" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ .name }}
  namespace: {{ include "library.namespace" .root | quote }}
  {{- include "library.described" . | nindent 2 }}
spec:
  {{- $given := dict }}
  {{- range $key := list "minAvailable" "maxUnavailable" }}{{ if not (has (get $.budget $key | toString) (list "" "<nil>")) }}{{ $_ := set $given $key (get $.budget $key) }}{{ end }}{{ end }}
  {{- toYaml (empty $given | ternary (dict "maxUnavailable" 1) $given) | nindent 2 }}
  unhealthyPodEvictionPolicy: {{ .budget.unhealthyPodEvictionPolicy }}
  selector:
    matchLabels: {{- include "library.selector" . | nindent 6 }}
{{- end -}}

{{/* The hook of a Job that removes what agents wrote on nodes: before the release is deleted, and if its agents are not `enabled`
also before each change, while agents that it had still have their rights. */}}
{{- define "library.cleaning" -}}
helm.sh/hook: pre-delete{{ if not .enabled }},pre-upgrade,pre-rollback{{ end }}
helm.sh/hook-weight: {{ .weight | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end -}}

{{/* Objects of the operator's own: a map as it is, a text as a template. */}}
{{- define "library.extraObjects" -}}
{{- $root := . -}}
{{- range .Values.extraObjects }}
---
{{ if kindIs "string" . }}{{ tpl . $root }}{{ else }}{{ toYaml . }}{{ end }}
{{- end }}
{{- end -}}

{{/* `policy` is the program's, from files/allocation-policy.yaml; `users` are this release's own. */}}
{{- define "library.allocationPolicy" -}}
{{- $name := include "library.clusterName" (dict "root" .root "name" (printf "%s-allocations" (include "library.fullname" .root))) }}
{{- $users := concat .policy.users .users (.root.Values.allocationPolicy.users | default list) | uniq | sortAlpha | toRawJson }}
{{- $groups := .root.Values.allocationPolicy.groups | default list | uniq | sortAlpha | toRawJson }}
{{- $unlisted := dict "name" "by-an-unlisted-account" "expression" (printf .policy.accounts $users $groups) }}
{{- $spec := set .policy.spec "matchConditions" (append .policy.spec.matchConditions $unlisted) | toYaml }}
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: {{ $name }}
  {{- include "library.described" . | nindent 2 }}
spec: {{- $spec | nindent 2 }}
---
{{ include "library.policyBinding" (dict "root" .root "name" $name "component" .component) }}
{{- end -}}

{{- define "library.policyBinding" -}}
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: {{ .name }}
  {{- include "library.described" . | nindent 2 }}
spec:
  policyName: {{ .name }}
  validationActions: [Deny]
{{- end -}}
