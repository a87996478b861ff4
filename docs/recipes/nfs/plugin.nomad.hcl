# The driver of kubernetes-csi/csi-driver-nfs: each volume is a directory of an NFS export.
variable "image" {
  description = "the driver's image; check the driver's documentation for the current tag"
  default     = "registry.k8s.io/sig-storage/nfsplugin:v4.9.0"
}

job "csi-nfs" {
  type = "system"

  group "plugin" {
    task "driver" {
      driver = "docker"

      config {
        image = var.image
        args = [
          "-v=5",
          "--endpoint=unix:///csi/csi.sock",
          "--nodeid=${node.unique.name}",
          "--drivername=nfs.csi.k8s.io",
        ]
        privileged   = true
        network_mode = "host"
      }

      csi_plugin {
        id   = "nfs"
        type = "monolith"
      }

      restart {
        attempts = 10
        interval = "5m"
        delay    = "5s"
        mode     = "delay"
      }

      resources {
        cpu    = 100
        memory = 128
      }
    }
  }
}
