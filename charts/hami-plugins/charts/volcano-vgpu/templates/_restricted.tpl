{{/* What the Pod Security level `restricted` wants of a pod, and of its containers. */}}
{{- define "volcano-vgpu.restrictedPod" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "volcano-vgpu.restrictedContainer" -}}
allowPrivilegeEscalation: false
capabilities: {drop: [ALL]}
readOnlyRootFilesystem: true
{{- end -}}

{{/* What is mounted by default of a service account, for a volume that one container of a pod has. */}}
{{- define "volcano-vgpu.token" -}}
sources:
- serviceAccountToken: {path: token, expirationSeconds: 3600}
- configMap: {name: kube-root-ca.crt, items: [{key: ca.crt, path: ca.crt}]}
- downwardAPI: {items: [{path: namespace, fieldRef: {fieldPath: metadata.namespace}}]}
{{- end -}}
