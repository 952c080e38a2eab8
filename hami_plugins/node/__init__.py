"""What a node agent of any product needs: the kubelet's interfaces and records, and HAMi-core's files."""
