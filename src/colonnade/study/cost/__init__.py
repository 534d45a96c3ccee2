"""What a run will cost over a line, before it begins: a few real rounds are timed, and then replayed over any line.

``request_trace`` notes requests and replies, and the computing between them; ``timed_rounds`` makes such traces of a
job's rounds; ``estimate`` multiplies them and adds up.
"""
