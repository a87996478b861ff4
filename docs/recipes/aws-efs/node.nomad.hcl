# The node part of the AWS EFS driver: it mounts file systems, with TLS by processes of its own.
variable "image" {
  description = "the driver's image; check the driver's documentation for the current tag"
  default     = "public.ecr.aws/efs-csi-driver/amazon/aws-efs-csi-driver:v2.1.0"
}

job "aws-efs-node" {
  type = "system"

  group "node" {
    task "driver" {
      driver = "docker"

      config {
        image = var.image
        args = [
          "--endpoint=unix:///csi/csi.sock",
          "--logtostderr",
          "--v=2",
        ]
        privileged   = true
        network_mode = "host"

        # Volumes of the engine: the mount helper finds its state again when the container is replaced.
        mount {
          type   = "volume"
          source = "efs-state"
          target = "/var/run/efs"
          volume_options {
            no_copy = true
          }
        }

        mount {
          type   = "volume"
          source = "efs-config"
          target = "/var/amazon/efs"
          volume_options {
            no_copy = true
          }
        }
      }

      csi_plugin {
        id   = "aws-efs"
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
        memory = 256
      }
    }
  }
}
