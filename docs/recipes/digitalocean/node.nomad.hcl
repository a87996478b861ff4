# The node part of the DigitalOcean driver: it formats and mounts volumes. It gets no token.
variable "image" {
  description = "the driver's image; check the driver's documentation for the current tag"
  default     = "docker.io/digitalocean/do-csi-plugin:v4.12.0"
}

job "digitalocean-node" {
  type = "system"

  group "node" {
    task "driver" {
      driver = "docker"

      config {
        image = var.image
        args = [
          "--endpoint=unix:///csi/csi.sock",
          "--url=https://api.digitalocean.com",
        ]
        privileged = true
      }

      csi_plugin {
        id   = "digitalocean"
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
