"""``--force`` killed at any system call leaves a complete checkpoint."""

import json
import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.integration

SCRIPT = textwrap.dedent("""
    import json, os, shutil, sys
    from pathlib import Path
    from ke_weights.patches.place import whole_folder

    root = Path(sys.argv[1])
    to = root / "out"
    PARTS = {"config.json": '{"model_type": "x"}', "model.safetensors": "weights", "ke_patches/history.json": "{}"}
    # The calls that change what is on the disk, and those that write it out.
    CALLS = ("rename", "replace", "unlink", "rmdir", "mkdir", "open", "fsync", "chmod")

    def fill(folder, content):
        (folder / "ke_patches").mkdir(parents=True)
        for name, text in PARTS.items():
            (folder / name).write_text(text + " " * content)

    def content(folder):
        sizes = {(folder / name).stat().st_size - len(text) for name, text in PARTS.items() if (folder / name).exists()}
        whole = all((folder / name).exists() for name in PARTS)
        return sizes.pop() if whole and len(sizes) == 1 else None

    def save(version):
        with whole_folder(to, force=True) as folder:
            fill(folder, version)

    def kill_at(number, after):
        count = 0
        def counted(call):
            def made(*args, **kwargs):
                nonlocal count
                count += 1
                if count == number and not after:
                    os._exit(9)
                found = call(*args, **kwargs)
                if count == number:
                    os._exit(9)
                return found
            return made
        for name in CALLS:
            setattr(os, name, counted(getattr(os, name)))

    def child(work):
        process = os.fork()
        if process == 0:
            try:
                work()
            finally:
                os._exit(0 if sys.exc_info()[0] is None else 1)
        return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])

    def first(number, after):
        kill_at(number, after)
        save(2)

    def fails():
        try:
            with whole_folder(to, force=True) as folder:
                raise RuntimeError
        except RuntimeError:
            pass

    kills, wrong = 0, []
    for after in (False, True):
        number = 0
        while True:
            number += 1
            shutil.rmtree(root)
            fill(to, 1)
            status = child(lambda: first(number, after))
            if status == 0:
                break
            kills += 1
            found = [content(folder) for folder in root.iterdir() if folder.is_dir()]
            fails()
            kept = content(to)
            save(3)
            left = sorted(path.name for path in root.iterdir())
            if status != 9 or not {1, 2} & {*found} or kept not in (1, 2) or content(to) != 3 or left != ["out"]:
                wrong.append([number, after, status, found, kept, content(to), left])
    print(json.dumps({"kills": kills, "wrong": wrong}))
""")


def test_kill_at_any_system_call_leaves_a_complete_checkpoint(tmp_path):
    (tmp_path / "root").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "root")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["wrong"] == []
    assert found["kills"] > 15
