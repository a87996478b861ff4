# The controller of Ceph CSI for RBD images.
variable "image" {
  description = "the driver's image; check the driver's documentation for the current tag"
  default     = "quay.io/cephcsi/cephcsi:v3.12.2"
}

variable "cluster_id" {
  description = "the fsid of the Ceph cluster: ceph fsid"
  type        = string
}

variable "monitors" {
  description = "the monitors of the Ceph cluster: host:port"
  type        = list(string)
}

job "ceph-rbd-controller" {
  type = "service"

  group "controller" {
    task "driver" {
      driver = "docker"

      config {
        image = var.image
        args = [
          "--type=rbd",
          "--controllerserver=true",
          "--drivername=rbd.csi.ceph.com",
          "--endpoint=unix:///csi/csi.sock",
          "--nodeid=${node.unique.name}",
          "--instanceid=nomad",
          "--pidlimit=-1",
          "--logtostderr=true",
          "--v=5",
        ]
        volumes      = ["local/config.json:/etc/ceph-csi-config/config.json:ro"]
        network_mode = "host"

        mount {
          type   = "tmpfs"
          target = "/tmp/csi/keys"
          tmpfs_options {
            size = 1000000
          }
        }
      }

      csi_plugin {
        id   = "ceph-rbd"
        type = "controller"
      }

      template {
        destination = "local/config.json"
        data        = jsonencode([{ clusterID = var.cluster_id, monitors = var.monitors }])
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
