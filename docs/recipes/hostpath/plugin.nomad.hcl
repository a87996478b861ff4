# The driver for tests of kubernetes-sigs/csi-driver-host-path: directories of one node.
variable "image" {
  description = "the driver's image; check the driver's documentation for the current tag"
  default     = "registry.k8s.io/sig-storage/hostpathplugin:v1.15.0"
}

job "csi-hostpath" {
  type = "system"

  group "plugin" {
    task "driver" {
      driver = "docker"

      config {
        image = var.image
        args = [
          "--drivername=hostpath.csi.k8s.io",
          "--v=5",
          "--endpoint=unix:///csi/csi.sock",
          "--nodeid=${node.unique.name}",
          "--statedir=/csi-data-dir",
        ]
        privileged = true

        # A volume of the engine: the driver's volumes stay when the container is replaced.
        mount {
          type   = "volume"
          source = "csi-hostpath"
          target = "/csi-data-dir"
        }
      }

      csi_plugin {
        id   = "csi-hostpath"
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
