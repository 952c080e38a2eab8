{{/* The vendors that are served, in the program's order, as JSON: each with the names that `settings` gives its resources, and those of
them that kube-scheduler must not look for on nodes.
The file is generated from the program; `moreVendors` has what other packages add to it. */}}
{{- define "allocator.served" -}}
{{- $known := (.Files.Get "files/vendors.yaml" | fromYaml).vendors -}}
{{- $names := list -}}{{- range $known }}{{- $names = append $names .name -}}{{- end -}}
{{- range .Values.moreVendors -}}
{{- if has .name $names -}}
{{- fail (printf "\nmoreVendors: %s: the chart has this vendor; remove the entry" .name) -}}
{{- end -}}
{{- $names = append $names .name -}}
{{- end -}}
{{- $known = concat $known .Values.moreVendors -}}
{{- range .Values.vendors -}}
{{- if not (has . $names) -}}
{{- fail (printf "\nvendors: %s: unknown vendor; the vendors are %s" . (join ", " $names)) -}}
{{- end -}}
{{- end -}}
{{- $settings := .Values.settings -}}
{{- $served := list -}}
{{- range $vendor := $known -}}
{{- if has $vendor.name $.Values.vendors -}}
{{- $section := $settings -}}
{{- range splitList "." $vendor.section -}}{{- $section = get ($section | default dict) . -}}{{- end -}}
{{- if kindIs "slice" $section -}}
{{- $own := dict -}}
{{- range $section -}}{{- if eq .commonWord $vendor.word }}{{ $own = . }}{{ end -}}{{- end -}}
{{- if not $own -}}
{{- fail (printf "\nvendors: %s: settings.%s has no commonWord %s; add it, or leave the vendor out" $vendor.name $vendor.section $vendor.word) -}}
{{- end -}}
{{- $section = $own -}}
{{- end -}}
{{- $section = $section | default dict -}}
{{- $resources := list -}}
{{- $ignored := list -}}
{{- range $vendor.resources -}}
{{- $name := get $section .key | default .name -}}
{{- $resources = append $resources $name -}}
{{- if .ignored }}{{ $ignored = append $ignored $name }}{{ end -}}
{{- end -}}
{{- $served = append $served (merge (dict "resources" (uniq $resources) "ignored" $ignored) $vendor) -}}
{{- end -}}
{{- end -}}
{{- toJson $served -}}
{{- end -}}

{{/* What follows from vendors and mode, as JSON: `kubeScheduler`, `hami` and `neuron` are whether such vendors are served, `binds` is
whether kube-scheduler leaves Bindings to the server, `locks` are the annotations by which nodes are locked. */}}
{{- define "allocator.needs" -}}
{{- $kubeScheduler := false -}}{{- $hami := false -}}{{- $neuron := false -}}{{- $volcano := false -}}{{- $locks := list -}}
{{- range include "allocator.served" . | fromJsonArray -}}
{{- if .kubeScheduler }}{{ $kubeScheduler = true }}{{ else }}{{ $volcano = true }}{{ end -}}
{{- if .hami }}{{ $hami = true }}{{ end -}}
{{- if .jobs }}{{ $neuron = true }}{{ end -}}
{{- if .lock }}{{ $locks = append $locks .lock }}{{ end -}}
{{- end -}}
{{- $told := (.Values.settings.scheduler | default dict) -}}
{{- $binds := and $kubeScheduler (ne (get $told "binds" | toString) "false") -}}
{{- $mode := get (.Values.settings.preemption | default dict) "mode" | default "off" | toString -}}
{{- dict "kubeScheduler" $kubeScheduler "hami" $hami "neuron" $neuron "volcano" $volcano "binds" $binds "preempts" (has $mode (list "scheduler" "full")) "evicts" (eq $mode "full") "locks" ($locks | uniq | sortAlpha) | toJson -}}
{{- end -}}
