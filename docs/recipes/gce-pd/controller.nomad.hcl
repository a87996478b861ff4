# The controller of the GCE PD driver: it makes, attaches and detaches disks.
variable "image" {
  description = "the driver's image; check the driver's documentation for the current tag"
  default     = "registry.k8s.io/cloud-provider-gcp/gcp-compute-persistent-disk-csi-driver:v1.15.0"
}

job "gce-pd-controller" {
  type = "service"

  group "controller" {
    task "driver" {
      driver = "docker"

      config {
        image = var.image
        args = [
          "--v=5",
          "--endpoint=unix:/csi/csi.sock",
          "--run-node-service=false",
        ]
        network_mode = "host"
      }

      csi_plugin {
        id   = "gce-pd"
        type = "controller"
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
