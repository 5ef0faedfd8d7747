"""A light server that waits before it reads requests, with one tool: `slow_server.py SECONDS TOOL`."""

import json
import sys
import time


def main():
    time.sleep(float(sys.argv[1]))
    tool = {"name": sys.argv[2], "inputSchema": {"type": "object"}}
    for line in sys.stdin:
        message = json.loads(line)
        response = {"jsonrpc": "2.0", "id": message.get("id")}
        if message.get("method") == "initialize":
            info = {"name": "slow", "version": "1"}
            version = message["params"]["protocolVersion"]
            response["result"] = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
        elif message.get("method") == "tools/list":
            response["result"] = {"tools": [tool]}
        elif "id" in message:
            response["error"] = {"code": -32601, "message": "Method not found"}
        else:
            continue
        print(json.dumps(response), flush=True)


if __name__ == "__main__":
    main()
