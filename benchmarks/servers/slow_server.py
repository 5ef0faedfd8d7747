"""A light server with one tool that waits before it answers: `slow_server.py SECONDS TOOL`. It imports only json."""

import json
import sys
import time


def main():
    time.sleep(float(sys.argv[1]))
    tool = {"name": sys.argv[2], "inputSchema": {"type": "object"}}
    for line in sys.stdin:
        message = json.loads(line)
        reply = {"jsonrpc": "2.0", "id": message.get("id")}
        if message.get("method") == "initialize":
            info = {"name": "slow", "version": "1"}
            version = message["params"]["protocolVersion"]
            reply["result"] = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
        elif message.get("method") == "tools/list":
            reply["result"] = {"tools": [tool]}
        elif "id" in message:
            reply["error"] = {"code": -32601, "message": "Method not found"}
        else:
            continue
        print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    main()
