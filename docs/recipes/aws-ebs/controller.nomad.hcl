# The controller of the AWS EBS driver: it makes, attaches and detaches disks.
variable "image" {
  description = "the driver's image; check the driver's documentation for the current tag"
  default     = "public.ecr.aws/ebs-csi-driver/aws-ebs-csi-driver:v1.36.0"
}

variable "region" {
  description = "the region of the nodes"
  type        = string
}

job "aws-ebs-controller" {
  type = "service"

  group "controller" {
    task "driver" {
      driver = "docker"

      config {
        image = var.image
        args = [
          "controller",
          "--endpoint=unix:///csi/csi.sock",
          "--v=5",
        ]
        network_mode = "host"
      }

      csi_plugin {
        id   = "aws-ebs"
        type = "controller"
      }

      secret "aws" {
        provider = "nomad"
        path     = "nomad/jobs/aws-ebs-controller"
      }

      env {
        AWS_REGION            = var.region
        AWS_ACCESS_KEY_ID     = "${secret.aws.access_key_id}"
        AWS_SECRET_ACCESS_KEY = "${secret.aws.secret_access_key}"
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
