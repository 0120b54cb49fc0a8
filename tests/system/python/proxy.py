"""A TCP proxy that can stop to carry bytes, in one direction or in both, and remembers what clients sent."""

import select
import socket
import threading

PIECE = 1 << 16
TURN_S = .02


class Proxy:
    """Carries connections to a port of 127.0.0.1. `port` is where it listens itself. While `forth` is false nothing
    goes on from client to server, while `back` is false nothing from server to client: the bytes wait, as those that
    TCP sends again. New connections are taken all the same."""

    def __init__(self, target, remember=False):
        self.forth = self.back = True
        self.remembered = [] if remember else None  # what each connection's client sent
        self._target, self._over = target, False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(TURN_S)
        self.port = self._listener.getsockname()[1]
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def close(self):
        self._over = True
        for thread in self._threads:
            thread.join()
        self._listener.close()

    def _accept(self):
        while not self._over:
            try:
                client, _ = self._listener.accept()
            except socket.timeout:
                continue
            thread = threading.Thread(target=self._carry, args=(client,))
            self._threads.append(thread)
            thread.start()

    def _carry(self, client):
        sent = bytearray()
        if self.remembered is not None:
            self.remembered.append(sent)
        with client:
            try:
                with socket.create_connection(("127.0.0.1", self._target)) as server:
                    while not self._over and self._turn(client, server, sent):
                        pass
            except OSError:
                pass  # one side is gone, and so the other's connection ends

    def _turn(self, client, server, sent):
        """Carries what there is. False: one side has ended."""
        ways = {client: server} if self.forth else {}
        ways.update({server: client} if self.back else {})
        for source in select.select(list(ways), [], [], TURN_S)[0]:
            piece = source.recv(PIECE)
            if not piece:
                return False
            ways[source].sendall(piece)
            if source is client and self.remembered is not None:
                sent += piece
        return True
