"""Run the page's modules in Node, which comes with Playwright."""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import playwright

from transformer_lite.page import SOURCES
from transformer_lite.page.export import WORKER

NODE = next(Path(playwright.__file__).parent.glob("driver/node*"))


PAGE = [SOURCES / name for name in (*WORKER, "state.js", "python.js")]


def run_javascript(body: str, given: Any = None, files: Sequence[Path] = PAGE) -> Any:
    """Return what a function's body returns; `given` is what it is given.

    All modules have the names of their files.
    """
    modules = "".join(
        f"import * as {path.stem} from {json.dumps(path.as_uri())};" for path in files
    )
    code = f"""
        {modules}
        let text = "";
        for await (const part of process.stdin) text += part;
        const given = JSON.parse(text);
        const result = (() => {{ {body} }})();
        console.log(JSON.stringify(result, (_, value) =>
          ArrayBuffer.isView(value) ? [...value] : value));
    """
    node = subprocess.run(
        [NODE, "--no-warnings", "--input-type=module", "--eval", code],
        input=json.dumps(given).encode(),
        capture_output=True,
        check=False,
    )
    assert node.returncode == 0, node.stderr.decode()
    return json.loads(node.stdout)
