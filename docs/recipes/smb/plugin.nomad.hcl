# The driver of kubernetes-csi/csi-driver-smb: each volume is a directory of an SMB share.
variable "image" {
  description = "the driver's image; check the driver's documentation for the current tag"
  default     = "registry.k8s.io/sig-storage/smbplugin:v1.16.0"
}

job "csi-smb" {
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
          "--drivername=smb.csi.k8s.io",
        ]
        privileged   = true
        network_mode = "host"
      }

      csi_plugin {
        id   = "smb"
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
