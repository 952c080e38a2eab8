{{- define "library.image" -}}
{{- $registry := .image.registry | default .root.Values.global.imageRegistry | default "" | trimSuffix "/" -}}
{{- if contains "://" $registry -}}
{{- fail (printf "\nglobal.imageRegistry: %s: nodes want a host alone, with its port and folder; leave the scheme out" $registry) -}}
{{- end -}}
{{- if not (or $registry .image.digest) -}}
{{- fail (printf "\nglobal.imageRegistry: name the registry that has %s; it is not published, build it from this tree. Without a registry nodes would pull it from docker.io, from an unknown publisher" .image.repository) -}}
{{- end -}}
{{- if $registry }}{{ $registry }}/{{ end }}{{ .image.repository }}
{{- if .image.digest }}@{{ .image.digest }}{{ else }}:{{ .image.tag | default (include "library.version" .root.Chart.AppVersion) }}{{ end -}}
{{- end -}}

{{/* HAMi-core's image: from the registry of all, unless it names one itself. */}}
{{- define "library.hamiCoreImage" -}}
{{- $first := splitList "/" .image | first -}}
{{- $named := and (contains "/" .image) (or (contains "." $first) (contains ":" $first) (eq $first "localhost")) -}}
{{- if and .root.Values.global.imageRegistry (not $named) }}{{ .root.Values.global.imageRegistry | trimSuffix "/" }}/{{ end }}{{ .image }}
{{- end -}}

{{- define "library.pullSecrets" -}}
{{- $named := list -}}
{{- range concat (.Values.global.imagePullSecrets | default list) (.Values.imagePullSecrets | default list) -}}
{{- $named = append $named (kindIs "string" . | ternary (dict "name" .) .) -}}
{{- end -}}
{{- with uniq $named }}imagePullSecrets: {{ toJson . }}{{ end -}}
{{- end -}}
