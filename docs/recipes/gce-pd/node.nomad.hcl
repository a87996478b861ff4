# The node part of the GCE PD driver: it formats and mounts disks.
variable "image" {
  description = "the driver's image; check the driver's documentation for the current tag"
  default     = "registry.k8s.io/cloud-provider-gcp/gcp-compute-persistent-disk-csi-driver:v1.15.0"
}

job "gce-pd-node" {
  type = "system"

  group "node" {
    task "driver" {
      driver = "docker"

      config {
        image = var.image
        args = [
          "--v=5",
          "--endpoint=unix:/csi/csi.sock",
          "--run-controller-service=false",
        ]
        privileged   = true
        network_mode = "host"

        # The driver finds disks by the links that the host's udev makes.
        volumes = [
          "/etc/udev:/etc/udev",
          "/lib/udev:/lib/udev",
          "/run/udev:/run/udev",
        ]
      }

      csi_plugin {
        id   = "gce-pd"
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
