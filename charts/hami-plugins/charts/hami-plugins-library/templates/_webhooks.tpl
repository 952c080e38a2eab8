{{/* Webhooks as the program has them, with what values say of all of them. Those whose name begins with one of `kept` fail, and are asked
about objects, as the program needs them to. */}}
{{- define "library.tunedWebhooks" -}}
{{- $values := .root.Values.webhooks -}}
{{- $kept := .kept -}}
{{- $found := list -}}
{{- range $hook := .hooks -}}
{{- $keeps := has (splitList "." $hook.name | first) $kept -}}
{{- with $values.timeoutSeconds }}{{ $_ := set $hook "timeoutSeconds" (int .) }}{{ end -}}
{{- with $values.failurePolicy }}{{ if not $keeps }}{{ $_ := set $hook "failurePolicy" . }}{{ end }}{{ end -}}
{{- with include "library.joinedSelector" (dict "first" $hook.namespaceSelector "second" $values.namespaceSelector) | fromYaml }}{{ $_ := set $hook "namespaceSelector" . }}{{ end -}}
{{- if not $keeps }}{{ with include "library.joinedSelector" (dict "first" $hook.objectSelector "second" $values.objectSelector) | fromYaml }}{{ $_ := set $hook "objectSelector" . }}{{ end }}{{ end -}}
{{- $found = append $found $hook -}}
{{- end -}}
{{- toYaml $found -}}
{{- end -}}

{{/* A selector that wants both; labels of the second are expressions, so that none replaces one of the first. */}}
{{- define "library.joinedSelector" -}}
{{- $first := deepCopy (.first | default dict) -}}
{{- $more := (.second).matchExpressions | default list -}}
{{- range $key, $value := (.second).matchLabels | default dict -}}{{- $more = append $more (dict "key" $key "operator" "In" "values" (list $value)) -}}{{- end -}}
{{- if $more }}{{ $_ := set $first "matchExpressions" (concat ($first.matchExpressions | default list) $more) }}{{ end -}}
{{- toYaml $first -}}
{{- end -}}
