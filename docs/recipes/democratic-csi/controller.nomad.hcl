# The controller of democratic-csi: it makes datasets and NFS exports on a ZFS or TrueNAS machine.
variable "image" {
  description = "the driver's image; check the driver's documentation for the current tag"
  default     = "docker.io/democraticcsi/democratic-csi:v1.9.4"
}

job "democratic-csi-controller" {
  type = "service"

  group "controller" {
    task "driver" {
      driver = "docker"

      config {
        image = var.image
        args = [
          "--csi-version=1.5.0",
          "--csi-name=org.democratic-csi.nfs",
          "--csi-mode=controller",
          "--driver-config-file=/secrets/driver.yaml",
          "--log-level=info",
          "--server-socket=/csi/csi.sock",
        ]
        entrypoint = [
          "/bin/sh", "-c",
          "umask 077; printf '%s' \"$DRIVER_CONFIG\" > /secrets/driver.yaml; unset DRIVER_CONFIG; exec bin/democratic-csi \"$@\"",
          "democratic-csi",
        ]
      }

      csi_plugin {
        id   = "democratic-csi"
        type = "controller"
      }

      secret "driver" {
        provider = "nomad"
        path     = "nomad/jobs/democratic-csi-controller"
      }

      env {
        DRIVER_CONFIG = "${secret.driver.config}"
      }

      restart {
        attempts = 10
        interval = "5m"
        delay    = "5s"
        mode     = "delay"
      }

      resources {
        cpu    = 100
        memory = 256
      }
    }
  }
}
