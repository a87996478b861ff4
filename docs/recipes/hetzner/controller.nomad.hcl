# The controller of the Hetzner Cloud driver: it makes, attaches and detaches volumes.
variable "image" {
  description = "the driver's image; check the driver's documentation for the current tag"
  default     = "docker.io/hetznercloud/hcloud-csi-driver:v2.9.0"
}

job "hetzner-controller" {
  type = "service"

  group "controller" {
    task "driver" {
      driver = "docker"

      config {
        image      = var.image
        entrypoint = ["/bin/hcloud-csi-driver-controller"]
      }

      csi_plugin {
        id   = "hetzner"
        type = "controller"
      }

      secret "hcloud" {
        provider = "nomad"
        path     = "nomad/jobs/hetzner-controller"
      }

      env {
        HCLOUD_TOKEN = "${secret.hcloud.token}"
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
