{{- define "allocator.scheduler" -}}{{ include "library.fullname" . }}-scheduler{{- end -}}

{{- define "allocator.schedulerAccount" -}}
{{- .Values.kubeScheduler.serviceAccount.name | default (include "allocator.scheduler" .) -}}
{{- end -}}

{{/* kube-scheduler's configuration: one profile, and the extender as the program prints it. */}}
{{- define "allocator.schedulerConfiguration" -}}
{{- $needs := include "allocator.needs" . | fromJson -}}
{{- $file := .Files.Get "files/kube-scheduler.yaml" | fromYaml -}}
{{- $extender := first $file.extenders -}}
{{- $managed := list -}}
{{- range $vendor := include "allocator.served" . | fromJsonArray -}}
{{- if $vendor.kubeScheduler -}}
{{- range $vendor.resources -}}{{- $managed = append $managed (dict "name" . "ignoredByScheduler" (has . $vendor.ignored)) -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- $ours := dict
  "urlPrefix" (printf "http://%s.%s.svc:%v%s" (include "library.fullname" .) (include "library.namespace" .) .Values.ports.plain $file.path)
  "httpTimeout" ($needs.locks | empty | ternary $file.timeouts.plain $file.timeouts.locked)
  "managedResources" $managed -}}
{{- if not $needs.binds }}{{ $extender = omit $extender "bindVerb" }}{{ end -}}
{{- if not $needs.preempts }}{{ $extender = omit $extender "preemptVerb" }}{{ end -}}
{{- $lease := dict "leaderElect" true "resourceLock" "leases" "resourceName" (include "allocator.scheduler" .) "resourceNamespace" (include "library.namespace" .) -}}
{{- $profile := merge (dict "schedulerName" .Values.schedulerName) (deepCopy (.Values.kubeScheduler.profile | default dict)) -}}
{{- dict "apiVersion" $file.apiVersion "kind" $file.kind "leaderElection" $lease "profiles" (list $profile) "extenders" (list (merge $ours $extender)) | toYaml -}}
{{- end -}}
