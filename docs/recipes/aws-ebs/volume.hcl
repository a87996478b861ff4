id           = "ebs-data"
name         = "ebs-data"
type         = "csi"
plugin_id    = "aws-ebs"
capacity_min = "10GiB"

capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}

parameters {
  type      = "gp3"
  encrypted = "true"
}

topology_request {
  required {
    topology {
      segments {
        "topology.ebs.csi.aws.com/zone" = "eu-central-1a"
      }
    }
  }
}

mount_options {
  fs_type = "ext4"
}
