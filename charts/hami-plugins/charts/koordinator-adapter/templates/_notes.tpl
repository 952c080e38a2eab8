{{/* What is to be done next; the umbrella says it, too. */}}
{{- define "koordinator-adapter.notes" -}}
Pods are translated that carry the label hami-plugins.io/koordinator=translate, or are in a namespace with it. What keeps the
cluster from sharing cards as its pods promise:

  hami-plugins koordinator doctor
{{- end -}}
