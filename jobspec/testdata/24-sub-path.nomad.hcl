job "sub" {
  group "g" {
    volume "data" {
      type            = "csi"
      source          = "v"
      access_mode     = "single-node-writer"
      attachment_mode = "file-system"
    }
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/true"
      }
      volume_mount {
        volume      = "data"
        destination = "/d"
        sub_path    = "app/${NOMAD_ALLOC_INDEX}"
      }
    }
  }
}
