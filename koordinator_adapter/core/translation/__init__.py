"""Pods from HAMi's or Volcano's words into Koordinator's and back, with what is lost. Pure.

Source: Koordinator 1.7.0 ``pkg/scheduler/plugins/deviceshare/utils.go``; Volcano 1.14.1
``pkg/scheduler/api/devices/nvidia/vgpu/utils.go`` and ``staging/src/volcano.sh/apis``; HAMi 2.10.0
``pkg/scheduler/webhook.go``.
"""
