# Reads what another job left on the volume.
job "demo-reader" {
  type = "batch"

  group "readers" {
    volume "data" {
      type            = "csi"
      source          = "demo"
      access_mode     = "single-node-writer"
      attachment_mode = "file-system"
    }

    task "reader" {
      driver = "exec"

      config {
        command = "/bin/sh"
        args    = ["-c", "wc -l data/greeting.txt; head -n 3 data/greeting.txt"]
      }

      volume_mount {
        volume      = "data"
        destination = "data"
      }

      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}
