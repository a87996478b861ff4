# The controller of the DigitalOcean driver: it makes, attaches and detaches volumes.
variable "image" {
  description = "the driver's image; check the driver's documentation for the current tag"
  default     = "docker.io/digitalocean/do-csi-plugin:v4.12.0"
}

job "digitalocean-controller" {
  type = "service"

  group "controller" {
    task "driver" {
      driver = "docker"

      config {
        image = var.image
        args = [
          "--endpoint=unix:///csi/csi.sock",
          "--url=https://api.digitalocean.com",
          "--token=${secret.digitalocean.token}",
        ]
      }

      csi_plugin {
        id   = "digitalocean"
        type = "controller"
      }

      secret "digitalocean" {
        provider = "nomad"
        path     = "nomad/jobs/digitalocean-controller"
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
