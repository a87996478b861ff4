# The controller of the AWS EFS driver: it makes access points.
variable "image" {
  description = "the driver's image; check the driver's documentation for the current tag"
  default     = "public.ecr.aws/efs-csi-driver/amazon/aws-efs-csi-driver:v2.1.0"
}

variable "region" {
  description = "the region of the nodes"
  type        = string
}

job "aws-efs-controller" {
  type = "service"

  group "controller" {
    task "driver" {
      driver = "docker"

      config {
        image = var.image
        args = [
          "--endpoint=unix:///csi/csi.sock",
          "--logtostderr",
          "--v=2",
          "--delete-access-point-root-dir=false",
        ]
        network_mode = "host"
      }

      csi_plugin {
        id   = "aws-efs"
        type = "controller"
      }

      secret "aws" {
        provider = "nomad"
        path     = "nomad/jobs/aws-efs-controller"
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
