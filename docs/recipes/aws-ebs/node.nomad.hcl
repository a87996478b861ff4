# The node part of the AWS EBS driver: it formats and mounts disks.
variable "image" {
  description = "the driver's image; check the driver's documentation for the current tag"
  default     = "public.ecr.aws/ebs-csi-driver/aws-ebs-csi-driver:v1.36.0"
}

job "aws-ebs-node" {
  type = "system"

  group "node" {
    task "driver" {
      driver = "docker"

      config {
        image = var.image
        args = [
          "node",
          "--endpoint=unix:///csi/csi.sock",
          "--v=5",
        ]
        privileged   = true
        network_mode = "host"
      }

      csi_plugin {
        id   = "aws-ebs"
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
