{{- define "koordinator-adapter.server" -}}{{ include "library.fullname" . }}{{- end -}}
{{- define "koordinator-adapter.node" -}}{{ include "library.fullname" . }}-node{{- end -}}

{{- define "koordinator-adapter.serverAccount" -}}
{{- .Values.serviceAccounts.server.name | default (include "koordinator-adapter.server" .) -}}
{{- end -}}

{{- define "koordinator-adapter.nodeAccount" -}}
{{- .Values.serviceAccounts.node.name | default (include "koordinator-adapter.node" .) -}}
{{- end -}}

{{- define "koordinator-adapter.nodeContext" -}}
{{ include "library.restrictedContainer" . }}
runAsUser: 0
{{- end -}}
