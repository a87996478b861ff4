# The driver of yandex-cloud/k8s-csi-s3: each volume is a bucket, or a prefix of one, mounted by FUSE.
variable "image" {
  description = "the driver's image; check the driver's documentation for the current tag"
  default     = "cr.yandex/crp9ftr22d26age3hulg/csi-s3:0.43.4"
}

job "csi-s3" {
  type = "system"

  group "plugin" {
    task "driver" {
      driver = "docker"

      config {
        image = var.image
        args = [
          "--v=4",
          "--endpoint=unix:///csi/csi.sock",
          "--nodeid=${node.unique.name}",
        ]
        privileged   = true
        network_mode = "host"
      }

      csi_plugin {
        id   = "s3"
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
        memory = 512
      }
    }
  }
}
