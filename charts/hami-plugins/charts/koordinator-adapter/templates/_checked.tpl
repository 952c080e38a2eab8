{{/* What no schema can say of values. */}}
{{- define "koordinator-adapter.checked" -}}
{{- if and (eq .Values.certificate.source "secret") (not (and .Values.certificate.secretName .Values.certificate.caBundle)) -}}
{{- fail "\ncertificate.source: secret needs certificate.secretName (a Secret with tls.crt and tls.key) and certificate.caBundle (the authority that signed it, PEM in base64)" -}}
{{- end -}}
{{- end -}}
