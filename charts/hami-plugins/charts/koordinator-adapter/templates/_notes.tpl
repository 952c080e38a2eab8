{{/* The next steps; the umbrella chart prints them as well. */}}
{{- define "koordinator-adapter.notes" -}}
Pods are translated that carry the label hami-plugins.io/koordinator=translate, or are in a namespace with it. To list what keeps the
cluster from sharing cards as its pods promise:

  hami-plugins koordinator doctor
{{- end -}}
