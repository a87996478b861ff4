# The node part of the Hetzner Cloud driver: it formats and mounts volumes. It gets no token.
variable "image" {
  description = "the driver's image; check the driver's documentation for the current tag"
  default     = "docker.io/hetznercloud/hcloud-csi-driver:v2.9.0"
}

job "hetzner-node" {
  type = "system"

  group "node" {
    task "driver" {
      driver = "docker"

      config {
        image      = var.image
        entrypoint = ["/bin/hcloud-csi-driver-node"]
        privileged = true
      }

      csi_plugin {
        id   = "hetzner"
        type = "node"
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
