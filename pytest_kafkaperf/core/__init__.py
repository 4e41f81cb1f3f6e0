"""What every other package needs: errors, units, the catalogue of metrics, text, files, the machine.

It imports no other package of this plugin, no Kafka client and no pytest.
"""
